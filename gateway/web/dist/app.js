import"./chunk-ZLDV3JS2.js";
