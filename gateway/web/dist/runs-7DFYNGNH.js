import{c as a,d as b,e as c,f as d}from"./chunk-SEK7JR3N.js";import"./chunk-HSUYJYYL.js";import"./chunk-HKLBNU5M.js";import"./chunk-Z3MSLB5G.js";export{b as State,d as View,a as isLive,c as took};
