import{a,b}from"./chunk-VJAWWIKF.js";import"./chunk-WGVTZQGU.js";import"./chunk-37SHY2PI.js";export{a as Abilities,b as View};
