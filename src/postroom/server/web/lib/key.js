// The half of the session that only pages of this origin can read. The cookie is the other half: it goes to every port of this host.
// The sign-in link leads here with the key behind #, which a browser sends to nobody.

const NAME = "postroom.key";
const START = "#key=";
let key = kept();

if (location.hash.startsWith(START)) {
  const given = location.hash.slice(START.length);
  history.replaceState(history.state, "", location.pathname + location.search);
  if (await fits(given)) keep(given);
}
window.addEventListener("storage", (event) => {
  if (event.key === NAME) key = kept(); // somebody signed in in another tab
});

/** Whether a key fits the cookie. A link of another site may hold any key, and must not sign the person out. */
async function fits(given) {
  const answer = await fetch("/api/summary", { headers: { "X-Postroom-Key": given }, cache: "no-store" }).catch(() => null);
  return answer?.status !== 401;
}

function keep(given) {
  key = given;
  try {
    localStorage.setItem(NAME, key);
  } catch {
    // in private windows and on full disks, the value is kept until the page closes
  }
}

function kept() {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

/** The headers that every request to the server needs. */
export const proof = () => (key ? { "X-Postroom-Key": key } : {});
