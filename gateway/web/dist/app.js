import"./chunk-Z3MSLB5G.js";
