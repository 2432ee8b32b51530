import"./chunk-JGJWHUJB.js";
