import{b as f}from"./chunk-DF5OPEJX.js";import{a as c,i as $,r as a}from"./chunk-DQ7HVVLL.js";function d(n){return`'${n.replaceAll("'","'\\''")}'`}function i(n){return`'${n.replaceAll("\\","\\\\").replaceAll("'","\\'")}'`}function h({packages:n,containerImage:r,containerConfig:t,containerIncludes:e,keep:o}){if(t||e||n?.condaOpts||o)return[];let s=`wave {
    enabled = true
    endpoint = ${i(a.href.replace(/\/$/,""))}`;if(r)return[["Nextflow, wave {}",`${s}
}
process.container = ${i(r)}`]];if(!n?.entries)return[];let l=n.channels?`
conda.channels = [${n.channels.map(i).join(", ")}]`:"";return[["Nextflow, wave {}",`${s}
    strategy = 'conda'
}${l}
process.conda = ${i(n.entries.join(" "))}`]]}var m=2e4;function w(n,r){let t=JSON.stringify(r)??"",e=!t||t.length>m?[]:[["curl",`curl -s ${new URL("v1alpha2/container",a)} -H 'Content-Type: application/json' -d ${d(t)}`]],o=["Nextflow",`process.container = '${n}'`];return n.startsWith("oras://")?[["Apptainer",`apptainer pull image.sif ${n}`],["Singularity",`singularity pull image.sif ${n}`],o,...e]:[["Docker",`docker run --rm -it ${n}`],["Podman",`podman run --rm -it ${n}`],["Apptainer",`apptainer shell docker://${n}`],["Kubernetes",`kubectl run shell --rm -it --restart=Never --image=${n} -- sh`],o,...r?h(r):[],...e]}function y({name:n,body:r}){let t=w(n,r),[e,o]=$(0),[s,l]=t[e]??t[0];return c`<div class="uses">
    <div class="choices" role="group" aria-label="How it is used">
      ${t.map(([u],p)=>c`<button type="button" key=${u} aria-pressed=${p===e} onClick=${()=>o(p)}>${u}</button>`)}
    </div>
    <${f} text=${l} what=${`the command for ${s}`} />
  </div>`}export{w as a,y as b};
