#pragma once

#include <utility>

namespace harmonaize {

/// A place in at most one list, which then needs no memory of its own.
class ListNode {
 public:
  ListNode() = default;
  ~ListNode() { Unlink(); }
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;

  bool linked() const { return next_ != this; }
  void Unlink() {
    next_->previous_ = previous_;
    previous_->next_ = next_;
    next_ = previous_ = this;
  }

 private:
  template <typename T>
  friend class IntrusiveList;

  ListNode* next_ = this;
  ListNode* previous_ = this;
};

/// A list of T, which derives from ListNode. Does not own its items.
template <typename T>
class IntrusiveList {
 public:
  bool empty() const { return !head_.linked(); }
  /// Removes `item` from any list it is in, and appends it.
  void PushBack(T* item) {
    static_cast<ListNode*>(item)->Unlink();
    Link(head_.previous_, item, &head_);
  }
  void PushFront(T* item) {
    static_cast<ListNode*>(item)->Unlink();
    Link(&head_, item, head_.next_);
  }
  T* Front() const { return empty() ? nullptr : static_cast<T*>(head_.next_); }
  T* PopFront() {
    T* item = Front();
    if (item != nullptr) static_cast<ListNode*>(item)->Unlink();
    return item;
  }
  /// Returns the item behind `item`, which is in this list; null at the end.
  T* After(const T* item) const {
    ListNode* next = static_cast<const ListNode*>(item)->next_;
    return next == &head_ ? nullptr : static_cast<T*>(next);
  }

 private:
  static void Link(ListNode* previous, ListNode* node, ListNode* next) {
    node->previous_ = previous;
    node->next_ = next;
    previous->next_ = node;
    next->previous_ = node;
  }

  ListNode head_;
};

}  // namespace harmonaize
