import{a as p}from"./chunk-V2GSBWQ2.js";import{D as c,a as s,i,t as m}from"./chunk-ZLDV3JS2.js";async function $(e){return(await m("GET",`api/user/${c.peek()?.id}/workspaces`,{signal:e})).orgsAndWorkspaces}function h(e,r="?"){return e?`${r}workspaceId=${e}`:""}function b(){let[e,r]=i(()=>Number(new URLSearchParams(location.search).get("workspace"))||0);return[e,t=>{history.replaceState(null,"",t?`?workspace=${t}`:location.pathname),r(t)}]}function y({id:e,choose:r}){let t=p($,[]),n=(t.value??[]).filter(o=>o.workspaceId);return!n.length&&!e?null:s`<p class="space"><label for="space">Workspace</label>
    <select id="space" value=${e} onChange=${o=>r(Number(o.currentTarget.value))}>
      <option value="0">Your own</option>
      ${e>0&&!n.some(o=>o.workspaceId===e)&&s`<option value=${e}>${t.value?"A workspace without access":"…"}</option>`}
      ${n.map(o=>s`<option key=${o.workspaceId} value=${o.workspaceId}>${o.orgName} / ${o.workspaceName}</option>`)}
    </select></p>`}function N({title:e,id:r,choose:t}){let n=p(async a=>c.value?$(a):[],[c.value?.id]),o=(n.value??[]).filter((a,w,k)=>a.workspaceId&&!k.slice(0,w).some(u=>u.workspaceId&&u.orgId===a.orgId)),l=(n.value??[]).find(a=>a.workspaceId===r);return!o.length&&!r?null:s`<p class="space"><label for="organization">${e}</label>
    <select id="organization" value=${l?o.find(a=>a.orgId===l.orgId)?.workspaceId:r} onChange=${a=>t(Number(a.currentTarget.value))}>
      <option value="0">Everyone</option>
      ${r>0&&!l&&s`<option value=${r}>${n.value?"A workspace without access":"…"}</option>`}
      ${o.map(a=>s`<option key=${a.orgId} value=${a.workspaceId}>${a.orgName}</option>`)}
    </select></p>`}export{$ as a,h as b,b as c,y as d,N as e};
