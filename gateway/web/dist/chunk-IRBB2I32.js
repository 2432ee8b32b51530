import{b as f}from"./chunk-QLZOINKV.js";import{a as c,i as $,r as a}from"./chunk-ZLDV3JS2.js";function d(n){return`'${n.replaceAll("'","'\\''")}'`}function i(n){return`'${n.replaceAll("\\","\\\\").replaceAll("'","\\'")}'`}function w({packages:n,containerImage:r,containerConfig:s,containerIncludes:t,keep:e}){if(s||t||n?.condaOpts||e)return[];let o=`wave {
    enabled = true
    endpoint = ${i(a.href.replace(/\/$/,""))}`;if(r)return[["Nextflow, wave {}",`${o}
}
process.container = ${i(r)}`]];if(!n?.entries)return[];let l=n.channels?`
conda.channels = [${n.channels.map(i).join(", ")}]`:"";return[["Nextflow, wave {}",`${o}
    strategy = 'conda'
}${l}
process.conda = ${i(n.entries.join(" "))}`]]}var m=2e4;function v(n,r,s){let t=JSON.stringify(r)??"",e=!t||t.length>m?[]:[["curl",`curl -s ${new URL("v1alpha2/container",a)} -H 'Content-Type: application/json' -d ${d(t)}`]],o=["Nextflow",`process.container = '${n}'`];return s==="environment"?[["slipway run",`slipway run ${n} -- CMD`],["slipway shell",`slipway shell ${n}`],...e]:n.startsWith("oras://")?[["Apptainer",`apptainer pull image.sif ${n}`],["Singularity",`singularity pull image.sif ${n}`],o,...e]:[["Docker",`docker run --rm -it ${n}`],["Podman",`podman run --rm -it ${n}`],["Apptainer",`apptainer shell docker://${n}`],["Kubernetes",`kubectl run shell --rm -it --restart=Never --image=${n} -- sh`],o,...r?w(r):[],...e]}function A({name:n,body:r,format:s}){let t=v(n,r,s),[e,o]=$(0),[l,h]=t[e]??t[0];return c`<div class="uses">
    <div class="choices" role="group" aria-label="How it is used">
      ${t.map(([u],p)=>c`<button type="button" key=${u} aria-pressed=${p===e} onClick=${()=>o(p)}>${u}</button>`)}
    </div>
    <${f} text=${h} what=${`the command for ${l}`} />
  </div>`}export{v as a,A as b};
