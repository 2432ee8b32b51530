import{a,b}from"./chunk-CH6U6T3L.js";import"./chunk-BYPXTVFK.js";import"./chunk-NBQG5HQD.js";export{a as Abilities,b as View};
