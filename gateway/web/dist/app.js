import"./chunk-G5XC6A2X.js";
