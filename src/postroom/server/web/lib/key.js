// The half of the session that only pages of this origin can read. The cookie is the other half: it goes to every port of this host.
// The sign-in link leads here with the key behind #, which a browser sends to nobody.

const NAME = "postroom.key";
const START = "#key=";
let key = kept();

if (location.hash.startsWith(START)) {
  key = location.hash.slice(START.length);
  history.replaceState(history.state, "", location.pathname + location.search);
  try {
    localStorage.setItem(NAME, key);
  } catch {
    // private windows and full disks: it holds until the page is closed
  }
}
window.addEventListener("storage", (event) => {
  if (event.key === NAME) key = kept(); // somebody signed in in another tab
});

function kept() {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

/** The headers that every request to the server needs. */
export const proof = () => (key ? { "X-Postroom-Key": key } : {});
