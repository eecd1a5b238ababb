// Command peer-helm renders charts with Helm's own packages, one request a line, so that benches and
// tests can put its figures and its words beside ours. It does what `helm template` does, in process.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"
)

type request struct {
	Chart       string   `json:"chart"`
	Values      string   `json:"values"`
	Release     string   `json:"release"`
	Namespace   string   `json:"namespace"`
	KubeVersion string   `json:"kube_version"`
	APIVersions []string `json:"api_versions"`
	IncludeCRDs bool     `json:"include_crds"`
	SkipSchema  bool     `json:"skip_schema"`
	// How often to measure after the first, unmeasured time; 0 renders once and answers with the text.
	Rounds int `json:"rounds"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	Text  string `json:"text,omitempty"`
	// SHA-256 of the text.
	Digest string `json:"digest,omitempty"`
	// Nanoseconds of CPU time of the whole process: everything, and everything but loading the chart.
	Cold []int64 `json:"cold,omitempty"`
	Warm []int64 `json:"warm,omitempty"`
	// Nanoseconds on the clock, loading included.
	Wall []int64 `json:"wall,omitempty"`
	// Bytes allocated by the last round.
	Allocated uint64 `json:"allocated,omitempty"`
	// Largest resident memory of the process so far, in bytes.
	Resident int64 `json:"resident,omitempty"`
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
	archive, err := source(req.Chart)
	if err != nil {
		reply.Error = err.Error()
		return reply
	}
	values, err := os.ReadFile(req.Values)
	if err != nil && req.Values != "" {
		reply.Error = err.Error()
		return reply
	}
	for round := 0; round <= req.Rounds; round++ {
		var before, after runtime.MemStats
		if round > 0 && round == req.Rounds {
			runtime.ReadMemStats(&before)
		}
		wall, started := time.Now(), cpu()
		loaded, err := archive()
		between := cpu()
		var text string
		if err == nil {
			text, err = render(req, loaded, values)
		}
		ended := cpu()
		if err != nil {
			reply.Error = err.Error()
			return reply
		}
		if round == 0 {
			sum := sha256.Sum256([]byte(text))
			reply.Digest = hex.EncodeToString(sum[:])
			if req.Rounds == 0 {
				reply.Text = text
			}
			continue
		}
		reply.Wall = append(reply.Wall, int64(time.Since(wall)))
		reply.Cold = append(reply.Cold, ended-started)
		reply.Warm = append(reply.Warm, ended-between)
		if round == req.Rounds {
			runtime.ReadMemStats(&after)
			reply.Allocated = after.TotalAlloc - before.TotalAlloc
		}
	}
	reply.Resident = resident()
	return reply
}

// source reads an archive into memory once; a folder is read each time.
func source(name string) (func() (*chart.Chart, error), error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return func() (*chart.Chart, error) { return loader.LoadDir(name) }, nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return func() (*chart.Chart, error) { return loader.LoadArchive(bytes.NewReader(content)) }, nil
}

// render goes the way of `helm template`: dependencies, values, schema, templates, order, text.
func render(req *request, loaded *chart.Chart, source []byte) (string, error) {
	values := map[string]interface{}{}
	if err := yaml.Unmarshal(source, &values); err != nil {
		return "", err
	}
	switch loaded.Metadata.Type {
	case "", "application":
	default:
		return "", fmt.Errorf("%s charts are not installable", loaded.Metadata.Type)
	}
	if err := dependencies(loaded); err != nil {
		return "", err
	}
	if err := chartutil.ProcessDependenciesWithMerge(loaded, values); err != nil {
		return "", err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	if req.KubeVersion != "" {
		version, err := chartutil.ParseKubeVersion(req.KubeVersion)
		if err != nil {
			return "", err
		}
		capabilities.KubeVersion = *version
	}
	// What Helm's own build says of itself; this one would name another compiler.
	capabilities.HelmVersion.Version, capabilities.HelmVersion.GoVersion = "v3.21.1", "go1.27.3"
	capabilities.APIVersions = append(capabilities.APIVersions, req.APIVersions...)
	release := chartutil.ReleaseOptions{Name: req.Release, Namespace: req.Namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValuesWithSchemaValidation(loaded, values, release, capabilities, req.SkipSchema)
	if err != nil {
		return "", err
	}
	wanted := loaded.Metadata.KubeVersion
	if wanted != "" && !chartutil.IsCompatibleRange(wanted, capabilities.KubeVersion.String()) {
		return "", fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s",
			wanted, capabilities.KubeVersion.String())
	}
	files, err := engine.Engine{}.Render(loaded, all)
	if err != nil {
		return "", err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if req.IncludeCRDs {
		for _, crd := range loaded.CRDObjects() {
			fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", crd.Filename, crd.File.Data)
		}
	}
	for _, manifest := range manifests {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", manifest.Name, manifest.Content)
	}
	trimmed := strings.TrimSpace(text.String()) + "\n"
	text.Reset()
	text.WriteString(trimmed)
	for _, hook := range hooks {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return text.String(), nil
}

// dependencies says which charts are declared and not there, as `helm template` does.
func dependencies(loaded *chart.Chart) error {
	var missing []string
next:
	for _, declared := range loaded.Metadata.Dependencies {
		for _, found := range loaded.Dependencies() {
			if path.Base(found.Name()) == declared.Name {
				continue next
			}
		}
		missing = append(missing, declared.Name)
	}
	if len(missing) > 0 {
		return fmt.Errorf("found in Chart.yaml, but missing in charts/ directory: %s", strings.Join(missing, ", "))
	}
	return nil
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

func resident() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return usage.Maxrss * 1024
}
