if [ -n "$M2_HOME" ] ; then M2_OLD="$M2_HOME"; export M2_OLD; fi
export M2_HOME=$CONDA_PREFIX/opt/maven; export MAVEN_OPTS=${MAVEN_OPTS:-"-Xmx1g -Dx='a b'"}
{ [ "$MAVEN_OPTS" != "" ] || false; } && export MAVEN_ARE="set $?"
( export LOST=1 )
