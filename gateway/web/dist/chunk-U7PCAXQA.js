import{a as l}from"./chunk-DCPPEBYN.js";import{C as n,a as t,h as c,s as p}from"./chunk-PYH6XOMQ.js";async function u(e){return(await p("GET",`api/user/${n.peek()?.id}/workspaces`,{signal:e})).orgsAndWorkspaces}function f(e,a="?"){return e?`${a}workspaceId=${e}`:""}function h(){let[e,a]=c(()=>Number(new URLSearchParams(location.search).get("workspace"))||0);return[e,r=>{history.replaceState(null,"",r?`?workspace=${r}`:location.pathname),a(r)}]}function v({id:e,choose:a}){let r=l(u,[]),s=(r.value??[]).filter(o=>o.workspaceId);return!s.length&&!e?null:t`<p class="space"><label for="space">Workspace</label>
    <select id="space" value=${e} onChange=${o=>a(Number(o.currentTarget.value))}>
      <option value="0">Your own</option>
      ${e>0&&!s.some(o=>o.workspaceId===e)&&t`<option value=${e}>${r.value?"A workspace without access":"…"}</option>`}
      ${s.map(o=>t`<option key=${o.workspaceId} value=${o.workspaceId}>${o.orgName} / ${o.workspaceName}</option>`)}
    </select></p>`}export{u as a,f as b,h as c,v as d};
