import{c as a,d as b,e as c,f as d}from"./chunk-P4OPEEHL.js";import"./chunk-U7PCAXQA.js";import"./chunk-DCPPEBYN.js";import"./chunk-PYH6XOMQ.js";export{b as State,d as View,a as isLive,c as took};
