// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/contender.hpp: a contender whose type is not known to who lets it run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "work.hpp"

namespace table {

/// Makes a new contender do one piece of work, then lets it go: nobody finds memory that another has not given back.
class Contender {
  public:
    explicit Contender(std::string name) : name_(std::move(name)) {}
    virtual ~Contender() = default;
    Contender(const Contender&) = delete;
    Contender& operator=(const Contender&) = delete;

    const std::string& name() const { return name_; }
    virtual double pair(std::size_t nbytes, int count) const = 0;
    virtual double random_pair(std::size_t nbytes, int count) const = 0;
    virtual Live live(std::size_t count, std::size_t least, std::size_t most) const = 0;
    virtual double other_thread(std::size_t nbytes, int rounds) const = 0;
    virtual double threads(int count, std::size_t nbytes, double seconds) const = 0;
    virtual double stream_pairs(std::size_t nbytes, double seconds) const = 0;
    virtual Latency mixed(std::size_t calls) const = 0;

  private:
    std::string name_;
};

/// A contender that `make` makes: a std::unique_ptr to what has allocate, deallocate and peak_reserved.
template <class Make>
class ContenderOf final : public Contender {
  public:
    ContenderOf(std::string name, Make make) : Contender(std::move(name)), make_(std::move(make)) {}

    double pair(std::size_t nbytes, int count) const override { return table::pair(*make_(), nbytes, count); }
    double random_pair(std::size_t nbytes, int count) const override {
        return table::random_pair(*make_(), nbytes, count);
    }
    Live live(std::size_t count, std::size_t least, std::size_t most) const override {
        return table::live(*make_(), count, least, most);
    }
    double other_thread(std::size_t nbytes, int rounds) const override {
        return table::other_thread(*make_(), nbytes, rounds);
    }
    double threads(int count, std::size_t nbytes, double seconds) const override {
        return table::threads(*make_(), count, nbytes, seconds);
    }
    double stream_pairs(std::size_t nbytes, double seconds) const override {
        return table::stream_pairs(*make_(), nbytes, seconds);
    }
    Latency mixed(std::size_t calls) const override { return table::mixed(*make_(), calls); }

  private:
    Make make_;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

template <class Make>
std::unique_ptr<Contender> contender(std::string name, Make make) {
    return std::make_unique<ContenderOf<Make>>(std::move(name), std::move(make));
}

/// The peers that this program was built with, where they have a device: in files of their own, because each needs
/// headers that are not here everywhere.
void add_rmm(Contenders& all);
void add_torch(Contenders& all);
/// Over the memory that Umpire knows by that name.
void add_umpire(Contenders& all, const char* memory = "DEVICE");

}  // namespace table
