import"./chunk-CC44DVEE.js";
