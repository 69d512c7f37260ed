// manifests prints what installs KubeVirt's operator: namespace, CRD, priority class, RBAC and
// Deployment, each made by KubeVirt's own generators, so that it cannot differ from the version
// pinned beside this file. virt-operator installs everything else itself.
package main

import (
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
	"kubevirt.io/kubevirt/tools/util"
)

func main() {
	namespace := flag.String("namespace", "kubevirt", "namespace of KubeVirt")
	version := flag.String("version", "v1.7.0", "version that virt-operator reports and installs")
	registry := flag.String("registry", "", "where the images are, such as registry.example:5000/kubevirt")
	control := flag.String("control-image", "kubevirt-control:v1.7.0", "image of virt-api, virt-controller and virt-operator")
	node := flag.String("node-image", "kubevirt-node:v1.7.0", "image of virt-handler and virt-launcher")
	replicas := flag.Int("replicas", 1, "virt-operators to run")
	flag.Parse()
	if *registry == "" {
		fail(fmt.Errorf("-registry is missing"))
	}
	controlImage, nodeImage := *registry+"/"+*control, *registry+"/"+*node

	print(&corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: *namespace, Labels: map[string]string{
			"kubevirt.io": "",
			// virt-handler needs the host's /proc, /sys and devices.
			"pod-security.kubernetes.io/enforce": "privileged",
		}},
	})
	crd, err := components.NewKubeVirtCrd()
	if err != nil {
		fail(err)
	}
	print(crd)
	print(components.NewKubeVirtPriorityClassCR())
	for _, object := range rbac.GetAllOperator(*namespace) {
		print(object)
	}

	// An image given here by name wins over one that virt-operator would put together from a
	// prefix and a version. The export and synchronization programs are in no image: their names only
	// have to be valid, since KubeVirt starts them for features we do not switch on.
	const imagePrefix, verbosity, runbookURL, unused = "", "2", "", ""
	virtAPI, virtController, virtOperator := controlImage, controlImage, controlImage
	virtHandler, virtLauncher := nodeImage, nodeImage
	exportProxy, exportServer, synchronization := controlImage, controlImage, controlImage
	libguestfs, prHelper, sidecarShim := unused, unused, unused
	deployment := components.NewOperatorDeployment(
		*namespace, *registry, imagePrefix, *version, verbosity, *version, runbookURL,
		virtAPI, virtController, virtHandler, virtLauncher,
		exportProxy, exportServer, synchronization,
		libguestfs, prHelper, sidecarShim, virtOperator, corev1.PullIfNotPresent)
	count := int32(*replicas)
	deployment.Spec.Replicas = &count
	print(deployment)
}

func print(object any) {
	if err := util.MarshallObject(object, os.Stdout); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "manifests:", err)
	os.Exit(1)
}
