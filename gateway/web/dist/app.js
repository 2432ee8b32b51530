import"./chunk-JGWF6YMF.js";
