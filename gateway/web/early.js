// What the user has entered into the form of the document before the scripts had arrived. The form works without them:
// it leads to an address that the scripts read.

const form = document.querySelector("form.order");
/** The changed options by their names. @type {Record<string, string>} */
const chosen = {};
for (const option of form?.querySelectorAll("input[type=radio]") ?? []) {
  if (option instanceof HTMLInputElement && option.checked && !option.defaultChecked) chosen[option.name] = option.value;
}
const field = form?.querySelector("#search");

export const early = { text: field instanceof HTMLInputElement ? field.value : "", focused: !!field && document.activeElement === field, chosen };
