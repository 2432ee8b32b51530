import{a,b}from"./chunk-XWTV5GEV.js";import"./chunk-Z4EBGNQ3.js";import"./chunk-JGJWHUJB.js";export{a as Abilities,b as View};
