package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// ours are our files as one text, the API's first.
func ours(t *testing.T) string {
	t.Helper()
	var all []string
	for _, name := range []string{"api", "reconciler", "migrate", "network", "namespace"} {
		raw, err := os.ReadFile("../kubernetes/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(raw))
	}
	return strings.Join(all, "\n---\n")
}

func TestOurManifestsPass(t *testing.T) {
	t.Parallel()
	var output strings.Builder
	if err := run(t.Context(), []string{"../kubernetes"}, &output); err != nil {
		t.Errorf("%v\n%s", err, output.String())
	}
	if _, err := readManifests(t.TempDir()); err == nil {
		t.Error("an empty directory passes")
	}
}

func TestEachDemandOnManifestsCanFail(t *testing.T) {
	t.Parallel()
	text := ours(t)
	for _, row := range []struct{ name, old, new, fault string }{
		{"token", "automountServiceAccountToken: false", "automountServiceAccountToken: true",
			"automountServiceAccountToken"},
		{"token by default", "automountServiceAccountToken: false", "restartPolicy: Always",
			"automountServiceAccountToken"},
		{"service links", "enableServiceLinks: false", "enableServiceLinks: true", "enableServiceLinks"},
		{"host network", "enableServiceLinks: false", "enableServiceLinks: false\n      hostNetwork: true",
			"it must not share"},
		{"host directory", "enableServiceLinks: false", "enableServiceLinks: false\n" +
			"      volumes: [{name: v, hostPath: {path: /etc}}]", "volume v"},
		{"root", "runAsUser: 65532", "runAsUser: 0", "runAsNonRoot"},
		{"root allowed", "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot"},
		{"a container's own user", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: false\n" +
			"            runAsUser: 1", "container api"},
		{"no seccomp", "RuntimeDefault", "Unconfined", "seccompProfile"},
		{"privilege escalation", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true",
			"allowPrivilegeEscalation"},
		{"privileged", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: true\n            privileged: true",
			"allowPrivilegeEscalation"},
		{"writable root", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRootFilesystem"},
		{"capabilities kept", "{drop: [ALL]}", "{drop: [CHOWN]}", "capabilities"},
		{"capability added", "{drop: [ALL]}", "{drop: [ALL], add: [CHOWN]}", "capabilities"},
		{"no request", "requests: {cpu: 500m, memory: 128Mi}", "requests: {memory: 128Mi}", "resources"},
		{"no limit of memory", "limits: {memory: 512Mi}", "limits: {}", "resources"},
		{"latest image", "payonce:1.0.0", "payonce:latest", "image"},
		{"image without version", "payonce:1.0.0", "payonce", "image"},
		{"a whole Secret", "configMapRef", "secretRef", "envFrom"},
		{"secret in a ConfigMap", "{secretKeyRef: {name: payonce-api, key: CONSOLE_SECRET}}",
			"{configMapKeyRef: {name: payonce, key: CONSOLE_SECRET}}", "CONSOLE_SECRET must come"},
		{"no readiness probe", "readinessProbe:\n            httpGet: {path: /readyz, port: operator}\n" +
			"            periodSeconds: 2\n            timeoutSeconds: 3\n            failureThreshold: 2", "tty: false",
			"readinessProbe"},
		{"probe of another port", "{path: /readyz, port: operator}", "{path: /readyz, port: other}", "readinessProbe"},
		{"one replica", "replicas: 2", "replicas: 1", "replicas"},
		{"one less meanwhile", "maxUnavailable: 0", "maxUnavailable: 1", "strategy"},
		{"all at once", "type: RollingUpdate\n    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}", "type: Recreate",
			"strategy"},
		{"one host", "whenUnsatisfiable: DoNotSchedule", "whenUnsatisfiable: ScheduleAnyway",
			"topologySpreadConstraints"},
		{"no budget", "kind: PodDisruptionBudget\nmetadata:\n  name: payonce-api\n  namespace: payonce\nspec:\n" +

			"  maxUnavailable: 1\n  unhealthyPodEvictionPolicy: AlwaysAllow\n  selector:\n    matchLabels: {app: payonce-api}",
			"kind: PodDisruptionBudget\nmetadata:\n  name: payonce-api\n  namespace: payonce\nspec:\n" +
				"  maxUnavailable: 1", "it has no PodDisruptionBudget"},
		{"budget of all", "  maxUnavailable: 1\n  unhealthy", "  maxUnavailable: 2\n  unhealthy",
			"its PodDisruptionBudget"},
		{"no time to end", "terminationGracePeriodSeconds: 60", "priority: 1", "terminationGracePeriodSeconds"},
		{"another namespace", "namespace: payonce\nspec:\n  replicas", "namespace: default\nspec:\n  replicas",
			"namespace"},
		{"a lax namespace", "enforce: restricted", "enforce: baseline", "there must be one Namespace"},
		{"secret as a value", `value: ":8080"`, "value: whsec_x", "HTTP_ADDR is a secret"},
		{"password in a URL", "PUBLIC_URL: https://", "PUBLIC_URL: https://me:word@", "PUBLIC_URL is a secret"},
		{"secret in the settings", "PSP: stripe", "PSP_SECRET: word", "PSP_SECRET is a secret"},
		{"secret as an argument", "args: [serve]", "args: [serve, sk_live_x]", "an argument is a secret"},
		{"nothing is denied", "policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]", "no NetworkPolicy denies"},
		{"open to everybody", "- from:\n        - namespaceSelector: {matchLabels: " +
			"{kubernetes.io/metadata.name: ingress-nginx}} # yours: where TLS ends\n      ports:", "- ports:",
			"an ingress"},
		{"every port out", "except: [\"fc00::/7\", \"fe80::/10\"]\n      ports:\n        - {protocol: TCP, port: 443}",
			"except: [\"fc00::/7\", \"fe80::/10\"]", "an egress"},
		{"policy for nobody", `podSelector: {matchLabels: {payonce/psp: "true"}}`, "podSelector: {matchLabels: {a: b}}",
			"there are no such pods"},
		{"policy for a port that is not there", "{protocol: TCP, port: http}", "{protocol: TCP, port: https}",
			"payonce-api has no port of that name"},
		{"no way to the database", `{app: payonce-migrate, payonce/database: "true"}`, "{app: payonce-migrate}",
			"payonce-migrate: no NetworkPolicy lets it out to TCP 5432"},
		{"another port of the database", "port: 5432", "port: 5433",
			"payonce-api: no NetworkPolicy lets it out to TCP 5432"},
		{"no names", "{protocol: UDP, port: 53}", "{protocol: UDP, port: 54}",
			"payonce-reconciler: no NetworkPolicy lets it out to UDP 53"},
		{"no names by TCP", "{protocol: TCP, port: 53}", "{protocol: SCTP, port: 53}",
			"payonce-migrate: no NetworkPolicy lets it out to TCP 53"},
		{"no way to the PSP", `{app: payonce-api, payonce/database: "true", payonce/psp: "true"}`,
			`{app: payonce-api, payonce/database: "true"}`, "payonce-api: no NetworkPolicy lets it out to TCP 443"},
		{"no way to the merchants", `{app: payonce-reconciler, payonce/database: "true", payonce/psp: "true"}`,
			`{app: payonce-reconciler, payonce/database: "true"}`,
			"payonce-reconciler: no NetworkPolicy lets it out to TCP 443"},
		{"a way out that has no effect", "podSelector: {matchLabels: {payonce/database: \"true\"}}\n  policyTypes: " +
			"[Egress]", "podSelector: {matchLabels: {payonce/database: \"true\"}}\n  policyTypes: [Ingress]",
			"payonce-api: no NetworkPolicy lets it out to TCP 5432"},
		{"clients are kept out", "{protocol: TCP, port: http}", "{protocol: TCP, port: operator}",
			"payonce-api: no NetworkPolicy lets anybody in to http"},
		{"service to nobody", "selector: {app: payonce-api}\n  ports", "selector: {app: api}\n  ports",
			"there are no such pods"},
		{"service to a port that is not there", "targetPort: http", "targetPort: web", "payonce-api has no port web"},
	} {
		broken := strings.Replace(text, row.old, row.new, 1)
		if broken == text {
			t.Errorf("%s: our files have no %q", row.name, row.old)
			continue
		}
		var m manifests
		if err := m.add([]byte(broken)); err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		faults := checkManifests(m)
		found := func(f string) bool { return strings.Contains(": "+f, ": "+row.fault) }
		if !slices.ContainsFunc(faults, found) {
			t.Errorf("%s: faults are %q, want %q", row.name, faults, row.fault)
		}
	}
}

func TestManifestsThatAreNotReadAsTheyAreWrittenAreRefused(t *testing.T) {
	t.Parallel()
	text := ours(t)
	for _, row := range []struct{ name, old, new string }{
		{"unknown member", "replicas: 2", "replica: 2"},
		{"another case", "readOnlyRootFilesystem", "readonlyRootFilesystem"},
		{"a member twice", "replicas: 2", "replicas: 2\n  replicas: 3"},
		{"another type", "replicas: 2", `replicas: "2"`},
		{"another kind", "kind: ConfigMap", "kind: Secret"},
	} {
		broken := strings.Replace(text, row.old, row.new, 1)
		if err := new(manifests).add([]byte(broken)); err == nil || broken == text {
			t.Errorf("%s passes", row.name)
		}
	}
}
