// Prepares the reader for trying things out: the demo's API key is filled in, and each visit gets an idempotency key of its own.
const reader = document.querySelector("rapi-doc");

// randomUUID exists only where the browser trusts the origin, which plain HTTP to another machine is not.
const freshKey = crypto.randomUUID ? crypto.randomUUID() : "try-" + Date.now() + "-" + Math.random().toString(16).slice(2);

reader.addEventListener("before-render", (event) => {
  const spec = event.detail.spec;
  // In the document, the operator's paths have a server of their own. The page may ask its own server alone, so it shows what that one answers.
  for (const [path, item] of Object.entries(spec.paths)) {
    if (Boolean(item.servers) !== (reader.dataset.listener === "operator")) {
      delete spec.paths[path];
    }
    delete item.servers;
  }
  spec.servers = [{ url: "/" }];
  const operations = Object.values(spec.paths).flatMap((path) => Object.values(path));
  for (const parameter of operations.flatMap((operation) => operation.parameters ?? [])) {
    if (parameter.name === "Idempotency-Key") {
      parameter.examples.bare.value = freshKey;
    } else if (parameter.name === "key") {
      parameter.example = freshKey;
    }
  }
});

// A narrow window has no room for the list of operations, so there all of them are on one page.
if (matchMedia("(max-width: 768px)").matches) {
  reader.setAttribute("render-style", "read");
}

reader.addEventListener("spec-loaded", () => {
  reader.setApiKey("bearerAuth", reader.dataset.apiKey);
});
