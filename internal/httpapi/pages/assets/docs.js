// Starts Swagger UI, and prepares it for trying things out: the API key of a demo is filled in, and each visit gets an idempotency key of its own.
const reader = document.querySelector("#reader");

// randomUUID exists only where the browser trusts the origin, which plain HTTP to another machine is not.
const freshKey = crypto.randomUUID ? crypto.randomUUID() : "try-" + Date.now() + "-" + Math.random().toString(16).slice(2);

// Swagger UI follows its own switch, not the browser's setting.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

// In the document, the operator's paths have a server of their own. The page may ask its own server alone, so it shows what that one answers. A proxy may serve that one below a path.
function prepare(spec) {
  for (const [path, item] of Object.entries(spec.paths)) {
    if (Boolean(item.servers) !== (reader.dataset.listener === "operator")) {
      delete spec.paths[path];
    }
    delete item.servers;
  }
  const operations = Object.values(spec.paths).flatMap((item) => Object.values(item));
  spec.tags = spec.tags.filter((tag) => operations.some((operation) => operation.tags?.includes(tag.name)));
  spec.servers = [{ url: new URL(".", location).pathname }];
  spec.components.parameters.IdempotencyKey.examples.bare.value = freshKey;
  for (const parameter of operations.flatMap((operation) => operation.parameters ?? [])) {
    if (parameter.name === "key") {
      parameter.example = freshKey;
    }
  }
  return spec;
}

// The headers of an answer are shown when they are asked for: they are the same for most answers.
const folded = (Headers, { React }) => (props) =>
  React.createElement("details", null, React.createElement("summary", null, "Headers"), React.createElement(Headers, props));

// A link in the button that opens an operation would be a second stop for the keyboard. Opening puts the address into the location all the same.
const unlinked = (_, { React }) => ({ text }) => React.createElement("span", null, text);

const plugin = {
  statePlugins: { spec: { wrapActions: { updateJsonSpec: (update) => (spec) => update(prepare(spec)) } } },
  wrapComponents: { headers: folded, DeepLink: unlinked, ServersContainer: () => () => null },
};

// The description is long, so each group of operations has a link above it.
function showGroups() {
  const groups = document.querySelector("#groups");
  for (const heading of reader.querySelectorAll(".opblock-tag")) {
    const link = document.createElement("a");
    link.href = "#" + heading.id;
    link.textContent = heading.dataset.tag;
    groups.append(link);
  }
  groups.hidden = false;
}

// Swagger UI gives some fields, buttons and regions no name, and its boxes cannot be scrolled with the keyboard.
function help() {
  const about = reader.querySelector(".information-container");
  if (about) {
    about.role = "region";
    about.ariaLabel = "About this API";
  }
  for (const field of reader.querySelectorAll("select:not([aria-label]), textarea:not([aria-label])")) {
    const parameter = field.closest("tr")?.dataset.paramName;
    field.ariaLabel = field.matches(".examples-select-element") ? "Example" : parameter ?? "Request body";
  }
  for (const button of reader.querySelectorAll("button:not([aria-label])")) {
    if (button.textContent.trim() === "") {
      button.ariaLabel = button.matches(".close-modal") ? "Close" : "Show or hide";
    }
  }
  for (const box of reader.querySelectorAll("pre, .renderedMarkdown table")) {
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) {
      box.tabIndex = 0;
    }
  }
}
new MutationObserver(help).observe(reader, { childList: true, subtree: true });

const ui = window.SwaggerUIBundle({
  url: reader.dataset.document,
  domNode: reader,
  plugins: [plugin],
  deepLinking: true,
  docExpansion: "list",
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  syntaxHighlight: false,
  validatorUrl: null,
  requestInterceptor: (request) => Object.assign(request, { credentials: "omit" }),
  onComplete: () => {
    if (reader.dataset.apiKey) {
      ui.preauthorizeApiKey("bearerAuth", reader.dataset.apiKey);
    }
    showGroups();
  },
});
