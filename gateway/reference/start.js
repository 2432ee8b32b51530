// Sorts calls without a body first, then calls with a body, well-known files, and deprecated calls.
const rank = (operation) => {
  if (operation.getIn(["operation", "deprecated"])) return 3;
  if (operation.get("path").startsWith("/.well-known/")) return 2;
  return operation.get("method") === "get" ? 0 : 1;
};

// All URLs are relative, so that the page works below any path prefix.
SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  displayRequestDuration: true,
  operationsSorter: (a, b) => rank(a) - rank(b),
  validatorUrl: null,
});
