// A node of libtorch's backward pass that somebody else computes: values are made elsewhere, and their pullback is called back.

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <vector>

namespace {

// Gradients of the outputs, null where there is none, to gradients of the inputs, made with `new` and given away. Not 0: it failed.
using Call = int (*)(void *closure, at::Tensor *const *upstream, std::size_t outputs, at::Tensor **downstream, std::size_t inputs);
using Drop = void (*)(void *closure);

struct Pullback : public torch::autograd::Node {
  void *closure;
  Call call;
  Drop drop;

  Pullback(void *own, Call on_call, Drop on_drop) : closure(own), call(on_call), drop(on_drop) {}
  ~Pullback() override { release_variables(); }

  std::string name() const override { return "FidgpPullback"; }

  void release_variables() override {
    if (closure != nullptr) {
      drop(closure);
      closure = nullptr;
    }
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list &&upstream) override {
    if (at::GradMode::is_enabled()) {
      throw std::runtime_error("a pullback that is written by hand has no second derivative");
    }
    if (closure == nullptr) {
      throw std::runtime_error("a pullback was called after its graph was freed: keep the graph");
    }
    std::vector<at::Tensor *> given;
    for (auto &tensor : upstream) {
      given.push_back(tensor.defined() ? &tensor : nullptr);
    }
    std::vector<at::Tensor *> found(num_outputs(), nullptr);
    const bool failed = call(closure, given.data(), given.size(), found.data(), found.size()) != 0;
    torch::autograd::variable_list downstream(found.size());
    for (std::size_t place = 0; place < found.size(); ++place) {
      if (found[place] != nullptr) {
        downstream[place] = std::move(*found[place]);
        delete found[place];
      }
    }
    if (failed) {
      throw std::runtime_error("a pullback failed");
    }
    return downstream;
  }
};

} // namespace

extern "C" {

// The closure is the node's from the first line on, also where this fails.
int fidgp_pullback(at::Tensor *const *inputs, std::size_t input_count, at::Tensor *const *outputs, std::size_t output_count,
                   void *closure, Call call, Drop drop, char *message, std::size_t size) {
  try {
    std::shared_ptr<Pullback> node(new Pullback(closure, call, drop), torch::autograd::deleteNode);
    torch::autograd::edge_list edges;
    bool wanted = false;
    for (std::size_t place = 0; place < input_count && at::GradMode::is_enabled(); ++place) {
      edges.push_back(torch::autograd::impl::gradient_edge(*inputs[place]));
      wanted = wanted || edges.back().is_valid();
    }
    if (!wanted) {
      return 0;
    }
    node->set_next_edges(std::move(edges));
    for (std::size_t place = 0; place < output_count; ++place) {
      torch::autograd::set_history(*outputs[place], node);
    }
    return 0;
  } catch (const std::exception &error) {
    std::snprintf(message, size, "%s", error.what());
    return 1;
  }
}
}
