package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"payonce/lab/bench/load"
	"payonce/lab/bench/rig"
)

// generator is the load generator at work, as a process of its own, so that its CPU is told apart.
type generator struct {
	cmd           *exec.Cmd
	clients       int
	out, problems bytes.Buffer
}

// generate carries out a plan.
func generate(ctx context.Context, plan load.Plan, cpus []int) (load.Result, error) {
	g, err := startLoad(ctx, plan, cpus)
	if err != nil {
		return load.Result{}, err
	}
	return g.result()
}

// startLoad starts the generator. The caller takes the result, or ends ctx.
func startLoad(ctx context.Context, plan load.Plan, cpus []int) (*generator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := rig.OnCores(cpus, self, "load")
	raw, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	g := &generator{clients: plan.Clients, cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	g.cmd.Stdin, g.cmd.Stdout, g.cmd.Stderr = bytes.NewReader(raw), &g.out, &g.problems
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("generate load: %w", err)
	}
	return g, nil
}

// stop ends it before its time. It does not wait for the answers under way, one for each client: those are no loss.
func (g *generator) stop() (load.Result, error) {
	if err := g.cmd.Process.Signal(os.Interrupt); err != nil {
		return load.Result{}, fmt.Errorf("stop the load generator: %w", err)
	}
	return g.resultWithout(int64(g.clients))
}

// result waits for it. An answer that was not expected is an error: errors are quick, and would be measured as speed.
func (g *generator) result() (load.Result, error) { return g.resultWithout(0) }

func (g *generator) resultWithout(answers int64) (load.Result, error) {
	if err := g.cmd.Wait(); err != nil {
		return load.Result{}, fmt.Errorf("generate load: %w: %s", err, bytes.TrimSpace(g.problems.Bytes()))
	}
	var result load.Result
	if err := json.Unmarshal(g.out.Bytes(), &result); err != nil {
		return load.Result{}, fmt.Errorf("read the load generator's result: %w", err)
	}
	if result.Unexpected > 0 || result.Lost > answers {
		return result, fmt.Errorf("%d answers were not as expected and %d are missing; the first: %s",
			result.Unexpected, result.Lost, result.FirstUnexpected)
	}
	return result, nil
}
