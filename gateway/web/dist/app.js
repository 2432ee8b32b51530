import"./chunk-37SHY2PI.js";
