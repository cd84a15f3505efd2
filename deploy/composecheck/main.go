// Composecheck loads compose.yaml with the library that Docker Compose itself
// uses and refuses it unless every service is hardened. A directory has the
// manifests of Kubernetes, which are decoded into Kubernetes' own types.
//
// It owns the list of what hardened means (hardening.go,
// kubernetes_hardening.go) and knows nothing of what the services do. It reads
// no setting from the environment, so a pass also says that the file is
// complete without any. It is a module of its own: the libraries' dependencies
// stay out of the application's go.mod.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "composecheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: composecheck compose.yaml, or a directory of Kubernetes' manifests")
	}
	what, faults, err := checkPath(ctx, args[0])
	if err != nil {
		return err
	}
	for _, fault := range faults {
		fmt.Fprintln(stdout, fault)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s: %d faults", args[0], len(faults))
	}
	fmt.Fprintf(stdout, "%s: %s, all hardened\n", args[0], what)
	return nil
}

func checkPath(ctx context.Context, path string) (what string, faults []string, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		m, err := readManifests(path)
		return fmt.Sprintf("%d kinds of pods", len(m.pods())), checkManifests(m), err
	}
	project, err := load(ctx, path)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%d services", len(project.Services)), check(project), nil
}

func load(ctx context.Context, file string, environment ...string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithResolvedPaths(true), cli.WithInterpolation(true),
		cli.WithEnv(environment),
		cli.WithProfiles([]string{"*"})) // a service that starts on demand is no less exposed
	if err != nil {
		return nil, fmt.Errorf("prepare to load %s: %w", file, err)
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", file, err)
	}
	return project, nil
}
