package pgbench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// threads of pgbench: two, for two cores.
const threads = 2

// Run says how a script is run.
type Run struct {
	Program string // the pgbench of the server's own version
	URL     string
	Clients int
	Seconds int // pgbench takes whole ones
}

// Result is what pgbench reports.
type Result struct {
	PerSecond    float64
	Transactions int64
}

// Do runs a script.
func (r Run) Do(ctx context.Context, s Script) (Result, error) {
	dir, err := os.MkdirTemp("", "payonce-pgbench-")
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "script.sql")
	if err := os.WriteFile(file, []byte(s.text), 0o600); err != nil {
		return Result{}, err
	}
	args := []string{
		"-n", "-M", "prepared", "-f", file, "-c", strconv.Itoa(r.Clients), "-j", strconv.Itoa(min(threads, r.Clients)),
		"-T", strconv.Itoa(r.Seconds), "--max-tries=1", "-D", "base=" + strconv.FormatInt(base(time.Now()), 10),
	}
	for name, value := range s.variables {
		args = append(args, "-D", name+"="+value)
	}
	cmd := exec.CommandContext(ctx, r.Program, append(args, r.URL)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return Result{}, fmt.Errorf("run pgbench, %s: %w: %s", s.Name, err, bytes.TrimSpace(problems.Bytes()))
	}
	return read(out.String())
}

// base is where the keys of a run begin: the millisecond and the version of a UUIDv7.
func base(now time.Time) int64 { return now.UnixMilli()<<16 | 7<<12 }

var (
	tpsLine    = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)
	countLine  = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	failedLine = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
)

// read takes the figures out of pgbench's report. One that is missing, or a failed transaction, is an error: both would
// go unnoticed as numbers.
func read(report string) (Result, error) {
	var r Result
	var err error
	figure := func(line *regexp.Regexp) float64 {
		match := line.FindStringSubmatch(report)
		if match == nil {
			err = fmt.Errorf("pgbench reports something else than expected: %q", report)
			return 0
		}
		value, parseErr := strconv.ParseFloat(match[1], 64)
		if parseErr != nil {
			err = parseErr
		}
		return value
	}
	r.PerSecond, r.Transactions = figure(tpsLine), int64(figure(countLine))
	if failed := figure(failedLine); failed > 0 {
		return r, fmt.Errorf("%d transactions of pgbench failed", int64(failed))
	}
	return r, err
}
