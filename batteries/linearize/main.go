// Command linearize checks a history of claims, ends, reaps and replays of items against a model of one item: its state,
// its ownership epoch, its lease token and its one replay child. It reads one JSON operation a line and prints one JSON verdict.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// operation is what one client did: Kind with its arguments, and what it was told.
type operation struct {
	Client int    `json:"client"`
	Kind   string `json:"kind"`
	Item   string `json:"item"`
	Epoch  int    `json:"epoch"` // what the caller relied on
	Token  string `json:"token"` // the token it held, or the one that it wanted to install
	OK     bool   `json:"ok"`
	State  string `json:"state"`  // what a read returned, or where a reap left the item
	Child  string `json:"child"`  // the replay child that was told of, or that was to be made
	Repeat bool   `json:"repeat"` // the answer of an earlier call, given again
	Code   string `json:"code"`   // why a replay was refused
	Call   int64  `json:"call"`
	Return int64  `json:"return"` // 0: it never came back
}

type item struct {
	state string
	epoch int
	token string
	child string
}

const (
	ready      = "ready"
	processing = "processing"
	dead       = "dead"
	done       = "done"
)

// step says whether an answer is possible in a state, and what the item then is.
func step(before item, op operation) (bool, item) {
	owned := before.state == processing && before.epoch == op.Epoch && before.token == op.Token
	switch op.Kind {
	case "claim":
		free := before.state == ready && before.epoch == op.Epoch
		if op.OK {
			return free, item{processing, op.Epoch + 1, op.Token, ""}
		}
		return !free, before
	case "complete":
		if op.OK {
			return owned, item{done, before.epoch, "", ""}
		}
		return !owned, before
	case "bury":
		if op.OK {
			return owned, item{dead, before.epoch, "", ""}
		}
		return !owned, before
	case "retry":
		if op.OK {
			return owned, item{ready, before.epoch, "", ""}
		}
		return !owned, before
	case "replay":
		return replay(before, op)
	case "reap":
		if op.OK {
			return owned, item{op.State, before.epoch, "", ""}
		}
		// A lease that was renewed meanwhile is a reason too.
		return true, before
	case "renew":
		return op.OK == owned, before
	case "read":
		return before == item{op.State, op.Epoch, op.Token, op.Child}, before
	}
	panic("unknown operation " + op.Kind)
}

// replay says the same of a replay: a dead item has one child for ever, and a refusal tells the reason that there is.
func replay(before item, op operation) (bool, item) {
	after := before
	after.child = op.Child
	switch {
	case op.OK && op.Repeat:
		return before.child != "" && before.child == op.Child, before
	case op.OK:
		return before.state == dead && before.child == "", after
	case op.Code == "not_dead":
		return before.state != dead, before
	case op.Code == "already_replayed" || op.Code == "lost_race":
		return before.child != "" && before.child == op.Child, before
	}
	return false, before
}

func model() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byItem := map[string][]porcupine.Operation{}
			for _, op := range history {
				name := op.Input.(operation).Item
				byItem[name] = append(byItem[name], op)
			}
			parts := make([][]porcupine.Operation, 0, len(byItem))
			for _, part := range byItem {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []interface{} { return []interface{}{item{ready, 0, "", ""}} },
		Step: func(state interface{}, input interface{}, output interface{}) []interface{} {
			op := input.(operation)
			if output == nil {
				// Nobody was told: it took effect, or it did not.
				op.OK = true
				possible, after := step(state.(item), op)
				if possible && op.Kind != "read" {
					return []interface{}{after, state}
				}
				return []interface{}{state}
			}
			if possible, after := step(state.(item), op); possible {
				return []interface{}{after}
			}
			return nil
		},
		Equal: func(a, b interface{}) bool { return a == b },
	}
	return nondeterministic.ToModel()
}

func main() {
	var history []porcupine.Operation
	unknown := 0
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		entry := porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Output: op.OK, Return: op.Return}
		if op.Return == 0 {
			entry.Output, entry.Return = nil, math.MaxInt64
			unknown++
		}
		history = append(history, entry)
	}
	started := time.Now()
	verdict := porcupine.CheckOperationsTimeout(model(), history, 60*time.Second)
	_ = json.NewEncoder(os.Stdout).Encode(map[string]interface{}{
		"verdict": string(verdict), "operations": len(history), "unknown": unknown,
		"seconds": time.Since(started).Seconds(),
	})
}
