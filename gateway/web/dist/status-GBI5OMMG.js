import{a,b}from"./chunk-KE3VKKT7.js";import"./chunk-V2GSBWQ2.js";import"./chunk-ZLDV3JS2.js";export{a as Abilities,b as View};
