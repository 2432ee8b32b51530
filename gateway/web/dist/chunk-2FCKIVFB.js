import{a as q}from"./chunk-GDHM4OMM.js";import{b as T}from"./chunk-PXRMSQ7J.js";import{a as f,c as N,e as C}from"./chunk-LN7U6JUS.js";import{G as x,a as s,e as m,h as i,ha as I,n as b,o as y,s as $,v}from"./chunk-G5XC6A2X.js";var j=1440*60*1e3,O=[[30,"30 days"],[90,"90 days"],[365,"a year"],[0,"until it is revoked"]],S=[[[],"everything you can do"],[["pull","request"],"requests without builds"],[["pull","request","build"],"requests and builds"],[["pull","request","build","freeze","runs"],"images and runs"],[["runs"],"runs"]],W=e=>e.split(/[\s,]+/).filter(Boolean);function Y(){try{return y()??Number(/^\{"tid":(\d+)\}/.exec(atob(b.value))?.[1])}catch{return}}function z({made:e}){let[r,a]=i(""),[n,p]=i(90),[c,o]=i(0),[u,d]=i(0),[h,E]=i(""),w=(f(q,[]).value??[]).filter(t=>t.workspaceId),[g,k]=i("");return s`<form class="fields row" onSubmit=${async t=>{t.preventDefault(),k("");try{let l=n?new Date(Date.now()+n*j).toISOString():"never",{accessKey:D}=await $("POST","api/tokens",{body:{name:r.trim(),expires:l,scopes:S[c][0],workspaceId:u,repositories:W(h)}});e(r.trim(),D),a("")}catch(l){k(v(l))}}}>
    <p><label for="name">Name</label><input id="name" type="text" maxlength="50" autocomplete="off" placeholder="laptop" value=${r} required
      onInput=${t=>a(t.currentTarget.value)} /></p>
    <p><label for="life">Works for</label><select id="life" value=${n} onChange=${t=>p(Number(t.currentTarget.value))}>
      ${O.map(([t,l])=>s`<option key=${t} value=${t}>${l}</option>`)}</select></p>
    <p><label for="use">May be used for</label><select id="use" value=${c} onChange=${t=>o(Number(t.currentTarget.value))}>
      ${S.map(([,t],l)=>s`<option key=${l} value=${l}>${t}</option>`)}</select></p>
    ${w.length>0&&s`<p><label for="within">Works in</label><select id="within" value=${u} onChange=${t=>d(Number(t.currentTarget.value))}>
      <option value="0">all workspaces</option>
      ${w.map(t=>s`<option key=${t.workspaceId} value=${t.workspaceId}>${t.orgName} / ${t.workspaceName}</option>`)}</select></p>`}
    <p><label for="repositories">Only for repositories</label><input id="repositories" type="text" autocomplete="off" autocapitalize="none" spellcheck=${!1} placeholder="all, or ghcr.io/lab/*" value=${h}
      onInput=${t=>E(t.currentTarget.value)} /></p>
    <p><button class="button" disabled=${!r.trim()}>Create</button></p>
    ${g&&s`<p class="note problem" role="alert"><${I} text=${g} /></p>`}</form>`}function A({one:e,name:r,here:a,label:n,path:p=`api/tokens/${e.id}`,again:c}){let o="lastAddress"in e&&e.lastAddress?` from ${e.lastAddress}`:"",u=e.lastUsed?`last used ${m(e.lastUsed)}${o}`:"never used",d="scopes"in e&&(e.scopes.length>0||e.workspaceId||e.repositories?.length>0)&&`only ${[e.scopes.join(", "),e.workspaceId&&`in the workspace ${e.workspaceId}`,e.repositories?.length>0&&`for ${e.repositories.join(", ")}`].filter(Boolean).join(" ")} · `;return s`<li><div class="what"><strong>${r}</strong>${a&&s` <span class="tag">this page</span>`}
      <p class="note">${d}${u} · ${e.expires?`until ${m(e.expires)}`:"until it is revoked"}</p></div>
    <${C} label=${n} what=${r} act=${async()=>{await $("DELETE",p),a?await x():c()}} /></li>`}function H(){let[e,r]=i(void 0),a=f(o=>$("GET","api/tokens",{signal:o}),[]),{tokens:n,sessions:p}=a.value??{tokens:[],sessions:[]},c=Y();return s`<h1>Access tokens</h1>
    <p class="lead">A token lets a program act as you: Nextflow, the command line, or a script.</p>
    <${z} made=${(o,u)=>{r({name:o,secret:u}),a.again()}} />
    ${e&&s`<section class="result" role="status"><h2>The token ${e.name}</h2><${T} large text=${e.secret} what="the token" />
      <p class="note">Copy it now: it is shown only once.</p></section>`}
    <section><h2>Your tokens</h2><${N} of=${a} what="Your tokens" />
      ${n.length>0&&s`<ul class="rows">${n.map(o=>s`<${A} key=${o.id} one=${o} name=${o.name} here=${o.id===c} label="Revoke" again=${a.again} />`)}</ul>`}
      ${a.value&&!n.length&&s`<p class="empty">You have none.</p>`}</section>
    ${p.length>0&&s`<section><h2>Programs that are signed in</h2>
      <ul class="rows">${p.map(o=>s`<${A} key=${o.id} one=${o} name=${o.clientId} label="End" again=${a.again} />`)}</ul></section>`}`}export{S as a,W as b,A as c,H as d};
