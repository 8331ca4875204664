package twin

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The sizes of the twin's volumes.
const (
	lightSize    = "64Mi"
	databaseSize = "512Mi"
)

const (
	noProvisioner = "kubernetes.io/no-provisioner"
	fsType        = "csi.storage.k8s.io/fstype"
	// noClass is the class of claims whose class is not there.
	noClass = "seatrial-twin"
	// defaultClass marks the class of claims that name none.
	defaultClass = "storageclass.kubernetes.io/is-default-class"
)

// objects copies StatefulSets, their classes and budgets.
func (m *maker) objects(namespaces []string) error {
	chosen := func(namespace string) bool {
		if len(namespaces) > 0 {
			return slices.Contains(namespaces, namespace)
		}
		return !strings.HasPrefix(namespace, "kube-")
	}
	for _, name := range namespaces {
		in := func(s appsv1.StatefulSet) bool { return s.Namespace == name }
		if !slices.ContainsFunc(m.Original.StatefulSets, in) {
			return fmt.Errorf("namespace %q has no StatefulSet that can be read", name)
		}
	}
	var not []string
	for _, set := range m.Original.StatefulSets {
		if !chosen(set.Namespace) {
			not = append(not, set.Namespace+"/"+set.Name)
			continue
		}
		m.Twin.StatefulSets = append(m.Twin.StatefulSets, m.set(set))
	}
	if len(not) > 0 {
		m.left("its namespace is not chosen", "StatefulSet %s", strings.Join(not, ", "))
	}
	m.classes()
	for _, b := range m.Original.Budgets {
		name := fmt.Sprintf("PodDisruptionBudget %s/%s", b.Namespace, b.Name)
		switch {
		case !chosen(b.Namespace):
			m.left("its namespace is not chosen", "%s", name)
		case !m.covered(b):
			m.left("it is over no pod of a copied StatefulSet", "%s", name)
		default:
			m.Twin.Budgets = append(m.Twin.Budgets, policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name, Labels: b.Labels},
				Spec:       *b.Spec.DeepCopy()})
		}
	}
	return nil
}

// covered reports whether a budget is over pods of the twin.
func (m *maker) covered(b policyv1.PodDisruptionBudget) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && slices.ContainsFunc(m.Twin.StatefulSets, func(s appsv1.StatefulSet) bool {
		return s.Namespace == b.Namespace && selector.Matches(labels.Set(s.Spec.Template.Labels))
	})
}

// set copies a StatefulSet with one container that a stand-in takes the place of.
func (m *maker) set(from appsv1.StatefulSet) appsv1.StatefulSet {
	to := appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name, Labels: from.Labels},
		Spec:       *from.Spec.DeepCopy(),
	}
	pod := from.Spec.Template.Spec
	name := fmt.Sprintf("StatefulSet %s/%s", from.Namespace, from.Name)
	of := 0
	image, size := Light, lightSize
	for i, c := range pod.Containers {
		if isMySQL(c.Image) && len(from.Spec.VolumeClaimTemplates) > 0 {
			of, image, size = i, Database, databaseSize
		}
	}
	if len(pod.Containers) == 0 { // The API server allows none.
		return to
	}
	container := pod.Containers[of]
	m.left("the twin runs a stand-in: "+map[string]string{Light: "a container that does nothing",
		Database: "MySQL as Seatrial runs it"}[image], "%s: image %s", name, container.Image)
	if len(from.Annotations)+len(from.Spec.Template.Annotations) > 0 {
		m.left("they may hold what a Secret should", "%s: annotations", name)
	}
	m.leftFields(name, "", pod, podFields())
	m.leftFields(name, "containers[].", container, containerFields())
	for i, c := range pod.Containers {
		if i != of {
			m.left(ownProgram, "%s: container %s", name, c.Name)
		}
	}
	var mounts []corev1.VolumeMount
	for i := range to.Spec.VolumeClaimTemplates {
		claim := &to.Spec.VolumeClaimTemplates[i]
		m.claim(name, claim, size)
		for _, mount := range container.VolumeMounts {
			if mount.Name == claim.Name {
				mounts = append(mounts, corev1.VolumeMount{Name: mount.Name, MountPath: mount.MountPath})
			}
		}
	}
	to.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: from.Spec.Template.Labels},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: pod.TerminationGracePeriodSeconds,
			EnableServiceLinks:            new(false), AutomountServiceAccountToken: new(false),
			SecurityContext: volumesContext(pod.SecurityContext),
			Containers: []corev1.Container{{Name: container.Name, Image: image, VolumeMounts: mounts,
				Resources: small(container.Resources)}},
		},
	}
	return to
}

// isMySQL reports whether an image is a server of MySQL, by the last word of its repository.
func isMySQL(image string) bool {
	repository, _, _ := strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(repository), ":")
	return slices.Contains([]string{"mysql", "mysql-server", "percona-server", "community-server",
		"enterprise-server"}, name)
}

// small asks for a little memory where the original asks for some: a gate (MemoryQoS) concerns those alone.
func small(of corev1.ResourceRequirements) corev1.ResourceRequirements {
	to := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}}
	if !of.Requests.Memory().IsZero() {
		to.Requests[corev1.ResourceMemory] = resource.MustParse("4Mi")
	}
	if !of.Limits.Memory().IsZero() {
		to.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(databaseSize)}
	}
	return to
}

// volumesContext keeps what a pod's context says about its volumes.
func volumesContext(of *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	if of == nil {
		return nil
	}
	return &corev1.PodSecurityContext{FSGroup: of.FSGroup, FSGroupChangePolicy: of.FSGroupChangePolicy,
		SELinuxChangePolicy: of.SELinuxChangePolicy}
}

// claim turns a claim template into one of the twin's disks.
func (m *maker) claim(set string, claim *corev1.PersistentVolumeClaim, size string) {
	m.leftFields(set, "volumeClaimTemplates[].", claim.Spec, claimFields())
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	m.left(ownMachine, "%s: size of claims %s: %s there, %s in the twin", set, claim.Name, asked.String(), size)
	for _, mode := range claim.Spec.AccessModes {
		if mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany {
			m.left("the twin's disks are for one node; they are ReadWriteOnce", "%s: access mode %s of claims %s", set,
				mode, claim.Name)
		}
	}
	modes := slices.DeleteFunc(slices.Clone(claim.Spec.AccessModes), func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode != corev1.ReadWriteOncePod
	})
	if len(modes) == 0 {
		modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	*claim = corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Labels: claim.Labels},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: claim.Spec.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}},
	}
}

// classes maps the classes of the claims to disks, and takes over the flags of the driver of most of them.
func (m *maker) classes() {
	known := map[string]storagev1.StorageClass{}
	standard := ""
	for _, c := range m.Original.Classes {
		known[c.Name] = c
		if c.Annotations[defaultClass] == "true" {
			standard = c.Name
		}
	}
	count := map[string]int{} // Claims, by driver.
	used := map[string]bool{}
	for i := range m.Twin.StatefulSets {
		set := &m.Twin.StatefulSets[i]
		for j := range set.Spec.VolumeClaimTemplates {
			claim := &set.Spec.VolumeClaimTemplates[j]
			name := standard
			if claim.Spec.StorageClassName != nil {
				name = *claim.Spec.StorageClassName
			}
			class, ok := known[name]
			if !ok {
				m.left(ownDisks, "StatefulSet %s/%s: class %q of claims %s, which is not there", set.Namespace,
					set.Name, name, claim.Name)
				class = storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: noClass}}
			}
			if !ok || claim.Spec.StorageClassName != nil {
				claim.Spec.StorageClassName = &class.Name
			}
			count[class.Provisioner]++
			if !used[class.Name] {
				used[class.Name] = true
				m.Twin.Classes = append(m.Twin.Classes, m.class(class, class.Name == standard))
			}
		}
	}
	var not []string
	for _, c := range m.Original.Classes {
		if !used[c.Name] {
			not = append(not, c.Name)
		}
	}
	if len(not) > 0 {
		m.left("no copied StatefulSet claims of it", "StorageClass %s", strings.Join(not, ", "))
	}
	if len(used) > 0 {
		m.driver(count)
	}
}

func (m *maker) class(from storagev1.StorageClass, standard bool) storagev1.StorageClass {
	kind := from.Parameters[fsType]
	if kind != "xfs" {
		kind = "ext4"
	}
	switch from.Provisioner {
	case noProvisioner:
		m.left("volumes of the twin can move to any node, and are made when they are claimed",
			"StorageClass %s: volumes made by hand, such as local ones", from.Name)
	case "":
	default:
		m.left(ownDisks, "StorageClass %s: provisioner %s", from.Name, from.Provisioner)
	}
	m.leftFields("StorageClass "+from.Name, "", from, classFields())
	parameters := maps.Clone(from.Parameters)
	delete(parameters, fsType)
	if len(parameters) > 0 {
		m.left(ownDisks, "StorageClass %s: parameters %s", from.Name,
			strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
	}
	to := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: from.Name, Labels: from.Labels},
		Parameters: map[string]string{fsType: kind}, ReclaimPolicy: from.ReclaimPolicy,
		VolumeBindingMode: from.VolumeBindingMode}
	if standard {
		to.Annotations = map[string]string{defaultClass: "true"}
	}
	return to
}

// driver takes over the flags of the driver with the most claims.
func (m *maker) driver(claims map[string]int) {
	names := slices.SortedFunc(maps.Keys(claims), func(a, b string) int {
		return (claims[b]-claims[a])*2 + strings.Compare(a, b)
	})
	m.Driver = &storagev1.CSIDriverSpec{}
	from := ""
	for _, name := range names {
		at := slices.IndexFunc(m.Drivers, func(d storagev1.CSIDriver) bool { return d.Name == name })
		if at < 0 {
			continue
		}
		if from != "" {
			m.left("the twin has one driver, with the flags of "+from, "CSIDriver %s", name)
			continue
		}
		from = name
		spec := m.Drivers[at].Spec
		m.leftFields("CSIDriver "+name, "", spec, driverFields())
		*m.Driver = storagev1.CSIDriverSpec{AttachRequired: spec.AttachRequired, FSGroupPolicy: spec.FSGroupPolicy,
			SELinuxMount: spec.SELinuxMount, RequiresRepublish: spec.RequiresRepublish}
	}
}

// field says of a field what value of it is no loss, and else why it is left out. A field with anything is copied.
type field struct {
	is  string // JSON; the default.
	why string
}

// anything is the value of fields that are copied, or told of elsewhere.
const anything = "*"

func podFields() map[string]field {
	return map[string]field{
		"containers": {is: anything}, "terminationGracePeriodSeconds": {is: anything},
		"restartPolicy": {is: `"Always"`}, "dnsPolicy": {`"ClusterFirst"`, notHere},
		"schedulerName":      {`"default-scheduler"`, notHere},
		"securityContext":    {`{}`, "only what is about volumes is copied"},
		"enableServiceLinks": {is: anything}, "automountServiceAccountToken": {is: anything},
		"initContainers": {why: ownProgram}, "volumes": {why: notRead}, "imagePullSecrets": {why: notRead},
		"serviceAccount": {is: anything}, "serviceAccountName": {`"default"`, notRead},
	}
}

func containerFields() map[string]field {
	quiet := field{is: anything}
	all := map[string]field{
		"name": quiet, "image": quiet, "imagePullPolicy": quiet, "terminationMessagePath": quiet,
		"terminationMessagePolicy": quiet, "volumeMounts": quiet,
		"env": {why: notRead}, "envFrom": {why: notRead},
		"resources": {"{}", ownMachine + "; a little memory is asked for where some is"},
	}
	for _, name := range []string{"args", "command", "lifecycle", "livenessProbe", "ports", "readinessProbe",
		"securityContext", "startupProbe", "volumeDevices", "workingDir"} {
		all[name] = field{why: ownProgram}
	}
	return all
}

func claimFields() map[string]field {
	return map[string]field{
		"accessModes": {is: anything}, "resources": {is: anything}, "storageClassName": {is: anything},
		"volumeMode": {`"Filesystem"`, ownDisks}, "": {why: ownDisks},
	}
}

func classFields() map[string]field {
	return map[string]field{
		"metadata": {is: anything}, "provisioner": {is: anything}, "parameters": {is: anything},
		"reclaimPolicy": {is: anything}, "volumeBindingMode": {is: anything},
		"allowVolumeExpansion": {"false", "disks of Seatrial's CSI driver cannot grow"}, "": {why: ownDisks},
	}
}

func driverFields() map[string]field {
	return map[string]field{
		"attachRequired": {is: anything}, "fsGroupPolicy": {is: anything}, "seLinuxMount": {is: anything},
		"requiresRepublish": {is: anything},
		"podInfoOnMount":    {"true", ownDisks}, "storageCapacity": {"true", ownDisks},
		"volumeLifecycleModes": {`["Persistent"]`, ownDisks}, "": {why: ownDisks},
	}
}

// leftFields lists the fields of an object that are not copied, those of one reason together. The field "" has the
// reason for those without one.
func (m *maker) leftFields(name, prefix string, object any, known map[string]field) {
	data, err := json.Marshal(object)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil { // Never of an API type.
		m.left(err.Error(), "%s", name)
		return
	}
	byReason := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		f := known[key]
		if f.is == anything || f.is == string(fields[key]) {
			continue
		}
		why := f.why
		if why == "" {
			why = known[""].why
		}
		if why == "" {
			why = notHere
		}
		byReason[why] = append(byReason[why], prefix+key)
	}
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		m.left(why, "%s: %s", name, strings.Join(byReason[why], ", "))
	}
}
