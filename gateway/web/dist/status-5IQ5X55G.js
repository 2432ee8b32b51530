import{a,b}from"./chunk-ZQWDZQSJ.js";import"./chunk-K2W5R2YV.js";import"./chunk-DQ7HVVLL.js";export{a as Abilities,b as View};
