import"./chunk-NBQG5HQD.js";
