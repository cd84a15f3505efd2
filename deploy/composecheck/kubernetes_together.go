package main

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// oneNamespace wants it said: kubectl would put the object into the namespace of its own settings.
func oneNamespace(m manifests) []string {
	if len(m.Namespaces) != 1 || m.Namespaces[0].Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		return []string{"there must be one Namespace, and it must enforce restricted"}
	}
	var faults []string
	for _, o := range m.objects() {
		if o.Namespace != m.Namespaces[0].Name {
			faults = append(faults, o.Name+": namespace must be "+m.Namespaces[0].Name)
		}
	}
	return faults
}

// objects are all that live in a namespace.
func (m manifests) objects() []metav1.ObjectMeta {
	var all []metav1.ObjectMeta
	for _, o := range m.ConfigMaps {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Services {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Jobs {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Deployments {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Budgets {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Policies {
		all = append(all, o.ObjectMeta)
	}
	return all
}

// secretValue is what a secret of ours looks like: a key, or a password in a URL.
var secretValue = regexp.MustCompile(`\b[sr]k_(?:live|test)_|whsec_|://[^/@]*:[^/@]+@`)

// noPublicSecret looks at what everybody can read who reads the files.
func noPublicSecret(m manifests) []string {
	var faults []string
	look := func(where, name, value string) {
		if secretValue.MatchString(value) || value != "" && secret.MatchString(name) {
			faults = append(faults, where+": "+name+" is a secret")
		}
	}
	for _, c := range m.ConfigMaps {
		for name, value := range c.Data {
			look(c.Name, name, value)
		}
	}
	for _, p := range m.pods() {
		for _, c := range p.containers() {
			for _, v := range c.Env {
				look(p.name, v.Name, v.Value)
			}
			for _, argument := range slices.Concat(c.Command, c.Args) {
				look(p.name, "an argument", argument)
			}
		}
	}
	return faults
}

func deniedByDefault(m manifests) []string {
	for _, p := range m.Policies {
		if len(p.Spec.PodSelector.MatchLabels)+len(p.Spec.PodSelector.MatchExpressions) == 0 &&
			len(p.Spec.Ingress)+len(p.Spec.Egress) == 0 && len(p.Spec.PolicyTypes) == 2 {
			return nil
		}
	}
	return []string{"no NetworkPolicy denies all pods both ways"}
}

// openOnPurpose wants each rule to name its peers and its ports, and to be about pods that there are.
func openOnPurpose(m manifests) []string {
	var faults []string
	for _, p := range m.Policies {
		selected := 0
		for _, each := range m.pods() {
			if !matches(p.Spec.PodSelector.MatchLabels, each.Labels) {
				continue
			}
			selected++
			for _, in := range p.Spec.Ingress {
				for _, port := range in.Ports {
					if !named(port, each) {
						faults = append(faults, p.Name+": "+each.name+" has no port of that name")
					}
				}
			}
		}
		if selected == 0 {
			faults = append(faults, p.Name+": there are no such pods")
		}
		for _, in := range p.Spec.Ingress {
			if len(in.From) == 0 || len(in.Ports) == 0 {
				faults = append(faults, p.Name+": an ingress must name who, and which port")
			}
		}
		for _, out := range p.Spec.Egress {
			if len(out.To) == 0 || len(out.Ports) == 0 {
				faults = append(faults, p.Name+": an egress must name whom, and which port")
			}
		}
	}
	return faults
}

// openWhereNeeded wants each pod to reach what its settings name, and to be reached where it listens: if a rule is
// missing, the cluster has all processes, and none of them works.
func openWhereNeeded(m manifests) []string {
	var faults []string
	for _, p := range m.pods() {
		for _, need := range p.asks() {
			if !m.opens(p, need) {
				faults = append(faults, p.name+": no NetworkPolicy lets it out to "+need.String())
			}
		}
		for _, c := range p.containers() {
			for _, port := range c.Ports {
				if !m.letsIn(p, port.Name) {
					faults = append(faults, p.name+": no NetworkPolicy lets anybody in to "+port.Name)
				}
			}
		}
	}
	return faults
}

// target is where a pod sends packets to.
type target struct {
	protocol corev1.Protocol
	port     int32
}

func (t target) String() string { return fmt.Sprintf("%s %d", t.protocol, t.port) }

// asks are the targets of a pod: names, the database, the PSP. The reconciler also delivers events.
func (p pod) asks() []target {
	var all []target
	for _, c := range p.containers() {
		given := func(name string) bool {
			return slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		}
		if given("DATABASE_URL") {
			all = append(all, target{corev1.ProtocolUDP, 53}, target{corev1.ProtocolTCP, 53},
				target{corev1.ProtocolTCP, 5432})
		}
		if given("STRIPE_SECRET") || given("PSP_SECRET") || slices.Contains(c.Command, "/reconciler") {
			all = append(all, target{corev1.ProtocolTCP, 443})
		}
	}
	return all
}

// about reports whether a policy has rules of that direction for a pod. Rules of a direction that policyTypes does not
// name are without effect.
func about(policy networkingv1.NetworkPolicy, p pod, direction networkingv1.PolicyType) bool {
	return len(policy.Spec.PodSelector.MatchExpressions) == 0 &&
		matches(policy.Spec.PodSelector.MatchLabels, p.Labels) && slices.Contains(policy.Spec.PolicyTypes, direction)
}

func (m manifests) opens(p pod, to target) bool {
	return slices.ContainsFunc(m.Policies, func(policy networkingv1.NetworkPolicy) bool {
		return about(policy, p, networkingv1.PolicyTypeEgress) &&
			slices.ContainsFunc(policy.Spec.Egress, func(out networkingv1.NetworkPolicyEgressRule) bool {
				return slices.ContainsFunc(out.Ports, func(port networkingv1.NetworkPolicyPort) bool {
					return is(port.Protocol, to.protocol) && is(port.Port, intstr.FromInt32(to.port))
				})
			})
	})
}

func (m manifests) letsIn(p pod, name string) bool {
	return slices.ContainsFunc(m.Policies, func(policy networkingv1.NetworkPolicy) bool {
		return about(policy, p, networkingv1.PolicyTypeIngress) &&
			slices.ContainsFunc(policy.Spec.Ingress, func(in networkingv1.NetworkPolicyIngressRule) bool {
				return slices.ContainsFunc(in.Ports, func(port networkingv1.NetworkPolicyPort) bool {
					return is(port.Port, intstr.FromString(name))
				})
			})
	})
}

func named(port networkingv1.NetworkPolicyPort, p pod) bool {
	return port.Port != nil && port.Port.Type == intstr.String && p.has(port.Port.StrVal)
}

// served wants each Service to lead to a port that its pods have.
func served(m manifests) []string {
	var faults []string
	for _, s := range m.Services {
		found := false
		for _, p := range m.pods() {
			if !p.stays || len(s.Spec.Selector) == 0 || !matches(s.Spec.Selector, p.Labels) {
				continue
			}
			found = true
			for _, port := range s.Spec.Ports {
				if !p.has(port.TargetPort.StrVal) {
					faults = append(faults, s.Name+": "+p.name+" has no port "+port.TargetPort.String())
				}
			}
		}
		if !found {
			faults = append(faults, s.Name+": there are no such pods")
		}
	}
	return faults
}
