package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// enforce implements NetworkPolicies, which the ptp plugin does not support. It reads them once
// a second, and replaces one nftables table in each node's network.
func (c *cluster) enforce(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		rules, err := c.rules(ctx)
		if err == nil && rules != last {
			err = c.apply(ctx, rules)
			if err == nil {
				last = rules
			}
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "network policies:", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (c *cluster) apply(ctx context.Context, rules string) error {
	for _, prefix := range [][]string{nil, {"nsenter", "--net=/run/netns/node2"}} {
		args := append(slices.Clone(prefix), "nft", "-f", "-")
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
		}
	}
	return nil
}

type labels map[string]string

type selector struct {
	MatchLabels      labels
	MatchExpressions []struct {
		Key, Operator string
		Values        []string
	}
}

func (s *selector) picks(l labels) bool {
	for k, v := range s.MatchLabels {
		if l[k] != v {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		v, has := l[e.Key]
		in := slices.Contains(e.Values, v)
		switch e.Operator {
		case "In":
			has = has && in
		case "NotIn":
			has = !in
		case "DoesNotExist":
			has = !has
		}
		if !has {
			return false
		}
	}
	return true
}

type peer struct {
	PodSelector, NamespaceSelector *selector
	IPBlock                        *struct {
		CIDR   string
		Except []string
	}
}

type direction struct {
	From, To []peer
	Ports    []struct {
		Protocol string
		Port     any
	}
}

type item struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          labels
	}
	Spec struct {
		HostNetwork     bool
		PodSelector     json.RawMessage
		PolicyTypes     []string
		Ingress, Egress []direction
	}
	Status struct{ PodIP, Phase string }
}

// A snapshot is the input of the rules.
type snapshot struct {
	pods, policies []item
	namespaces     map[string]labels
}

func (c *cluster) rules(ctx context.Context) (string, error) {
	out, err := c.kubectl(ctx, "get", "pods,networkpolicies,namespaces", "-A", "-o", "json")
	if err != nil {
		return "", err
	}
	var list struct{ Items []item }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return "", err
	}
	s := snapshot{namespaces: map[string]labels{}}
	for _, i := range list.Items {
		switch {
		case i.Kind == "Namespace":
			s.namespaces[i.Metadata.Name] = i.Metadata.Labels
		case i.Kind == "NetworkPolicy":
			s.policies = append(s.policies, i)
		case i.Status.PodIP != "" && !i.Spec.HostNetwork && i.Status.Phase != "Succeeded" && i.Status.Phase != "Failed":
			s.pods = append(s.pods, i)
		}
	}
	return s.table(), nil
}

func (s snapshot) table() string {
	var chains, forward, input strings.Builder
	for _, pod := range s.pods {
		for _, d := range []struct{ kind, me, them string }{{"Egress", "saddr", "daddr"}, {"Ingress", "daddr", "saddr"}} {
			policies := s.about(pod, d.kind)
			if len(policies) == 0 {
				continue
			}
			chain := strings.ToLower(d.kind) + "_" + strings.ReplaceAll(pod.Status.PodIP, ".", "_")
			fmt.Fprintf(&chains, " chain %s {\n", chain)
			for _, p := range policies {
				rules, peers := p.Spec.Egress, func(d direction) []peer { return d.To }
				if d.kind == "Ingress" {
					rules, peers = p.Spec.Ingress, func(d direction) []peer { return d.From }
				}
				for _, r := range rules {
					s.rule(&chains, p.Metadata.Namespace, d.them, peers(r), r)
				}
			}
			chains.WriteString("  counter drop\n }\n")
			jump := fmt.Sprintf("  ip %s %s jump %s\n", d.me, pod.Status.PodIP, chain)
			forward.WriteString(jump)
			if d.kind == "Egress" {
				input.WriteString(jump) // traffic from the node itself is also restricted
			}
		}
	}
	hook := func(name, jumps string) string {
		return " chain " + name + " {\n  type filter hook " + name + " priority 0; policy accept;\n  ct state established,related accept\n" + jumps + " }\n"
	}
	return "table inet netpol\ndelete table inet netpol\ntable inet netpol {\n" + chains.String() + hook("forward", forward.String()) + hook("input", input.String()) + "}\n"
}

// about returns the policies that apply to a pod in one direction.
func (s snapshot) about(pod item, kind string) []item {
	var out []item
	for _, p := range s.policies {
		var sel selector
		if json.Unmarshal(p.Spec.PodSelector, &sel) == nil && p.Metadata.Namespace == pod.Metadata.Namespace &&
			slices.Contains(p.Spec.PolicyTypes, kind) && sel.picks(pod.Metadata.Labels) {
			out = append(out, p)
		}
	}
	return out
}

func (s snapshot) rule(to *strings.Builder, namespace, them string, peers []peer, r direction) {
	ports := []string{""}
	if len(r.Ports) > 0 {
		ports = nil
	}
	for _, p := range r.Ports {
		proto := strings.ToLower(p.Protocol)
		if proto == "" {
			proto = "tcp"
		}
		ports = append(ports, fmt.Sprintf("%s dport %v ", proto, p.Port))
	}
	for _, port := range ports {
		if len(peers) == 0 {
			fmt.Fprintf(to, "  %sreturn\n", port)
		}
		if ips := s.addresses(namespace, peers); len(ips) > 0 {
			fmt.Fprintf(to, "  ip %s { %s } %sreturn\n", them, strings.Join(ips, ", "), port)
		}
		for _, p := range peers {
			if p.IPBlock == nil {
				continue
			}
			except := ""
			if len(p.IPBlock.Except) > 0 {
				except = fmt.Sprintf("ip %s != { %s } ", them, strings.Join(p.IPBlock.Except, ", "))
			}
			block := fmt.Sprintf("ip %s %s ", them, p.IPBlock.CIDR)
			if p.IPBlock.CIDR == "0.0.0.0/0" {
				block = ""
			}
			fmt.Fprintf(to, "  %s%s%sreturn\n", block, except, port)
		}
	}
}

// addresses returns the addresses of the pods that peers select.
func (s snapshot) addresses(namespace string, peers []peer) []string {
	var ips []string
	for _, p := range peers {
		if p.IPBlock != nil {
			continue
		}
		for _, pod := range s.pods {
			ns := pod.Metadata.Namespace
			if p.NamespaceSelector == nil && ns != namespace || p.NamespaceSelector != nil && !p.NamespaceSelector.picks(s.namespaces[ns]) ||
				p.PodSelector != nil && !p.PodSelector.picks(pod.Metadata.Labels) {
				continue
			}
			ips = append(ips, pod.Status.PodIP)
		}
	}
	slices.Sort(ips)
	return slices.Compact(ips)
}
