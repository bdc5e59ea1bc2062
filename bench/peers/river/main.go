// River as its documentation sets it up.
//
//	river schema, river load COUNT INTERVAL_SECONDS, river work MAX_WORKERS COOLDOWN_MS
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Noop carries a payload of the same size as the other sides' jobs.
type Noop struct {
	At   float64 `json:"at"`
	Note string  `json:"note"`
}

// Kind names the job.
func (Noop) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[Noop]
	waits *os.File
}

// Work writes down how long the job waited, if it says when it was enqueued.
func (w *worker) Work(_ context.Context, job *river.Job[Noop]) error {
	if job.Args.At > 0 && w.waits != nil {
		waited := now() - job.Args.At
		_, err := fmt.Fprintf(w.waits, "%.3f\n", waited*1000)
		return err
	}
	return nil
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

func demand(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(place int) int {
	found, err := strconv.Atoi(os.Args[place])
	demand(err)
	return found
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("PEER_URL"))
	demand(err)
	defer pool.Close()
	switch os.Args[1] {
	case "schema":
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
		demand(err)
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		demand(err)
	case "load":
		seconds, err := strconv.ParseFloat(os.Args[3], 64)
		demand(err)
		load(ctx, pool, number(2), time.Duration(seconds*float64(time.Second)))
	case "work":
		work(ctx, pool, number(2), time.Duration(number(3))*time.Millisecond)
	}
}

func client(pool *pgxpool.Pool, maximum int, cooldown time.Duration) *river.Client[pgx.Tx] {
	workers := river.NewWorkers()
	w := &worker{}
	if path := os.Getenv("BENCH_WAITS"); path != "" {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		demand(err)
		w.waits = file
	}
	river.AddWorker(workers, w)
	made, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown: cooldown,
		Logger:        slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: maximum}},
		Workers:       workers,
	})
	demand(err)
	return made
}

func load(ctx context.Context, pool *pgxpool.Pool, count int, interval time.Duration) {
	queue := client(pool, 1, river.FetchCooldownDefault)
	note := strings.Repeat("x", 850)
	if interval > 0 {
		begun := time.Now()
		for i := range count {
			time.Sleep(time.Until(begun.Add(time.Duration(i) * interval)))
			_, err := queue.Insert(ctx, Noop{At: now(), Note: note}, nil)
			demand(err)
		}
		return
	}
	const batch = 5000
	for start := 0; start < count; start += batch {
		many := make([]river.InsertManyParams, min(batch, count-start))
		for i := range many {
			many[i] = river.InsertManyParams{Args: Noop{Note: note}}
		}
		_, err := queue.InsertManyFast(ctx, many)
		demand(err)
	}
}

func work(ctx context.Context, pool *pgxpool.Pool, maximum int, cooldown time.Duration) {
	queue := client(pool, maximum, cooldown)
	demand(queue.Start(context.Background()))
	<-ctx.Done()
	limited, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	demand(queue.Stop(limited))
}
