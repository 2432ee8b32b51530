// What can be tried at once comes first, and what is deprecated last.
const rank = (operation) => (operation.getIn(["operation", "deprecated"]) ? 2 : operation.get("method") === "get" ? 0 : 1);

// Everything is relative, so that the page works below any prefix.
SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  displayRequestDuration: true,
  operationsSorter: (a, b) => rank(a) - rank(b),
  validatorUrl: null,
});
