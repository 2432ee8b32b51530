import{c as a,d as b,e as c,f as d}from"./chunk-S64YBVZD.js";import"./chunk-GDHM4OMM.js";import"./chunk-LN7U6JUS.js";import"./chunk-G5XC6A2X.js";export{b as State,d as View,a as isLive,c as took};
