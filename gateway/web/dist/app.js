import"./chunk-PYH6XOMQ.js";
