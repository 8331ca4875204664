module seatrial.invalid/kubernetes

go 1.26.0

godebug default=go1.26

require k8s.io/kubernetes v1.36.3

tool k8s.io/kubernetes/cmd/kubelet

replace k8s.io/api => k8s.io/api v0.36.3

replace k8s.io/client-go => k8s.io/client-go v0.36.3

replace other.org/fork => better.org/fork v1.2.3
