import"./chunk-ZFL66K4C.js";
