// Sorts calls without a body first, and deprecated calls last.
const rank = (operation) => (operation.getIn(["operation", "deprecated"]) ? 2 : operation.get("method") === "get" ? 0 : 1);

// All URLs are relative, so that the page works below any path prefix.
SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  displayRequestDuration: true,
  operationsSorter: (a, b) => rank(a) - rank(b),
  validatorUrl: null,
});
