// Draw diagrams for the page, in a frame with a policy of its own. A message {id, source, dark} is answered by {id, picture} or {id, error}.

const mermaid = window.mermaid;

window.addEventListener("message", async ({ data, origin, source: page }) => {
  if (origin !== location.origin || typeof data.source !== "string") return;
  try {
    const looks = { startOnLoad: false, securityLevel: "strict", htmlLabels: false, flowchart: { htmlLabels: false } };
    mermaid.initialize({ ...looks, theme: data.dark ? "dark" : "default" });
    const { svg } = await mermaid.render(data.id, data.source);
    page.postMessage({ id: data.id, picture: svg }, origin);
  } catch (error) {
    page.postMessage({ id: data.id, error: String(error.message ?? error).slice(0, 300) }, origin);
  }
});
