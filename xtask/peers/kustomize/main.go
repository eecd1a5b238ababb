// Command peer-kustomize builds folders with Kustomize's own packages, one request a line, so that
// benches and tests can put its figures and its words beside ours.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

type request struct {
	Path string `json:"path"`
	// How often to measure after the first, unmeasured time; 0 builds once and answers with the text.
	Rounds int `json:"rounds"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	Text  string `json:"text,omitempty"`
	// Nanoseconds of CPU time of the whole process.
	CPU []int64 `json:"cpu,omitempty"`
	// Nanoseconds on the clock.
	Wall []int64 `json:"wall,omitempty"`
	// Bytes allocated by the last round.
	Allocated uint64 `json:"allocated,omitempty"`
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) == 0 {
			if err != nil {
				return
			}
			continue
		}
		var req request
		if err := json.Unmarshal(line, &req); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := out.Encode(serve(&req)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func serve(req *request) (reply *answer) {
	reply = &answer{}
	defer func() {
		if problem := recover(); problem != nil {
			reply.Error = fmt.Sprintf("panic: %v", problem)
		}
	}()
	for round := 0; round <= req.Rounds; round++ {
		var before, after runtime.MemStats
		if round > 0 && round == req.Rounds {
			runtime.ReadMemStats(&before)
		}
		wall, started := time.Now(), cpu()
		text, err := build(req.Path)
		ended := cpu()
		if err != nil {
			reply.Error = err.Error()
			return reply
		}
		if round == 0 {
			if req.Rounds == 0 {
				reply.Text = string(text)
			}
			continue
		}
		reply.Wall = append(reply.Wall, int64(time.Since(wall)))
		reply.CPU = append(reply.CPU, ended-started)
		if round == req.Rounds {
			runtime.ReadMemStats(&after)
			reply.Allocated = after.TotalAlloc - before.TotalAlloc
		}
	}
	return reply
}

// build does what `kustomize build` does with its default flags.
func build(path string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		return nil, err
	}
	return resources.AsYaml()
}

// cpu is the CPU time of the whole process, the collector's included, in nanoseconds.
func cpu() int64 {
	const processTime = 2
	var spec syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, processTime, uintptr(unsafe.Pointer(&spec)), 0)
	if failed != 0 {
		return 0
	}
	return spec.Nano()
}
