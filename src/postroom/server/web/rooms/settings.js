// Settings: theme, notifications, quiet hours and sign-out. Kept in this browser.

import { get, post } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { choose, onChoice, settings } from "../lib/settings.js";
import { commands } from "../parts/connect.js";
import { failed } from "../parts/toast.js";

const PERMISSIONS = {
  none: "This browser has no notifications.",
  denied: "They are blocked: allow them for this page in the browser's own settings.",
  default: "",
  granted: "Allowed by this browser.",
};
const THEMES = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

const ROWS = [
  ["two", "Two lines"],
  ["one", "One line"],
];

export const room = {
  title: "Settings",
  show(main, id, house) {
    const facts = h("span", {}, about(house?.summary?.()));
    fill(
      main,
      h(
        "div.room.settings",
        { "data-room": "settings" },
        h("header", {}, h("h1", {}, "Settings")),
        appearance(),
        notifications(),
        quietHours(),
        connect(),
        leaving(facts),
      ),
    );
    if (!house?.summary?.())
      get("/api/summary").then(
        (summary) => fill(facts, about(summary)),
        () => {},
      );
    return {};
  },
};

// They may also be changed in the palette, or in another tab.
onChoice((chosen) => {
  for (const name of ["theme", "rows"]) {
    const radio = document.querySelector(`.settings input[name="${name}"][value="${chosen[name]}"]`);
    if (radio) radio.checked = true;
  }
});

const about = (summary) =>
  summary ? `Signed in as ${summary.person}. Postroom ${summary.version}${summary.dev ? ", for development" : ""}.` : "";

function part(title, about, ...children) {
  return h(
    "section.card",
    { "aria-label": title },
    h("div.what", {}, h("h2", {}, title), h("p.soft", {}, about)),
    h("div.how", {}, ...children),
  );
}

function segmented(legend, key, options) {
  const radio = ([value, name]) => {
    const chosen = { checked: settings()[key] === value, onchange: () => choose({ [key]: value }) };
    return h("label.choice", {}, h("input", { type: "radio", name: key, value, ...chosen }), h("span", {}, name));
  };
  return h("fieldset.segmented", {}, h("legend.unseen", {}, legend), options.map(radio));
}

function appearance() {
  return part(
    "Appearance",
    "Light, dark, or as the system has it; and how much of an entry its row shows.",
    segmented("Theme", "theme", THEMES),
    segmented("Rows", "rows", ROWS),
  );
}

function toggle(name, key, changed = () => {}) {
  const box = h("input", { type: "checkbox", role: "switch", checked: settings()[key] });
  box.addEventListener("change", () => {
    choose({ [key]: box.checked });
    changed(box.checked);
  });
  return h("label.toggle", {}, box, h("span", {}, name));
}

/** Notifications need the permission of the browser and the person's setting. */
function notifications() {
  const how = h("div.how-inside");
  const state = h("p.small.soft", { role: "status" });
  const draw = () => {
    const permission = "Notification" in window ? Notification.permission : "none";
    fill(
      how,
      permission === "default" && h("button", { type: "button", onclick: allow }, "Allow notifications"),
      permission === "granted" && toggle("Notify me", "notify"),
    );
    fill(state, PERMISSIONS[permission]);
  };
  const allow = async () => {
    if ((await Notification.requestPermission()) === "granted") choose({ notify: true });
    draw();
    how.querySelector("input")?.focus();
  };
  draw();
  return part("Notifications", "For questions and failures alone, and never for what you have read.", how, state);
}

function quietHours() {
  const time = (name, key) => {
    const changed = (event) => event.target.value && choose({ [key]: event.target.value });
    return h(
      "label.time",
      {},
      h("span", {}, name),
      h("input", { type: "time", value: settings()[key], required: true, onchange: changed }),
    );
  };
  const times = h("div.times", {}, time("From", "quietFrom"), time("To", "quietTo"));
  const dim = (on) => times.toggleAttribute("data-off", !on);
  dim(settings().quiet);
  return part("Quiet hours", "No notification between these times.", toggle("Keep quiet hours", "quiet", dim), times);
}

function connect() {
  const card = part(
    "Connect an agent",
    "What it pushes and asks appears in your inbox.",
    h("details", {}, h("summary", {}, "Show the commands"), commands()),
  );
  card.classList.add("stacked");
  return card;
}

function leaving(facts) {
  const out = async () => {
    try {
      await post("/api/sign-out");
      location.assign("/");
    } catch (error) {
      failed("You are still signed in.", error);
    }
  };
  return part("Session", facts, h("button", { type: "button", onclick: out }, "Sign out"));
}
