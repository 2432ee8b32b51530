import"./chunk-DQ7HVVLL.js";
