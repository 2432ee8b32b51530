import"./chunk-YWAUJ4C2.js";
