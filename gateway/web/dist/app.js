import"./chunk-MSROBSWU.js";
