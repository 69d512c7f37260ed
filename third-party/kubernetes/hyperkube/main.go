// hyperkube is etcd and the Kubernetes programs in one file. It picks the program by the name it
// was called with (a link, as in an image), or by its first argument when called hyperkube.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Only the chosen program is constructed: each registers flags and metrics that the others also have.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"etcdutl":                 newEtcdutl,
}

// newEtcdutl puts etcdutl's commands together; its module offers them but keeps their parent in a main package.
func newEtcdutl() *cobra.Command {
	root := &cobra.Command{Use: "etcdutl", Short: "works on the files of an etcd that is not running", SilenceUsage: true}
	root.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "output format (fields, json, protobuf, simple, table)")
	root.AddCommand(
		etcdutl.NewDefragCommand(),
		etcdutl.NewSnapshotCommand(),
		etcdutl.NewHashKVCommand(),
		etcdutl.NewMigrateCommand(),
		etcdutl.NewVersionCommand(),
	)
	return root
}

func main() {
	name := filepath.Base(os.Args[0])
	if name == "hyperkube" {
		if len(os.Args) < 2 {
			usage("no program named")
		}
		// Plugins and usage texts look at os.Args[0]: it has to be the program, not hyperkube.
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "etcdctl":
		ctlv3.MustStart()
		return
	}
	// etcdctl's package switches this on for everybody; kubectl must not guess commands.
	cobra.EnablePrefixMatching = false
	program, known := programs[name]
	if !known {
		usage("no program is called " + name)
	}
	command := program()
	if name == "kubectl" {
		// kubectl words its errors and picks its exit codes itself.
		kubectlutil.CheckErr(cli.RunNoErrOutput(command))
		return
	}
	os.Exit(cli.Run(command))
}

func usage(problem string) {
	names := []string{"etcd", "etcdctl"}
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "hyperkube: %s\nusage: hyperkube PROGRAM [ARGUMENTS]\nprograms: %s\n", problem, strings.Join(names, " "))
	os.Exit(2)
}
